"""Level-based foraging, thousands of copies at once.

The rules are those of ``lbforaging`` 2.0.0, step for step; the code is our own and works on arrays. ``config.py`` knows the
keys and ids, ``layout.py`` draws starts from seeds, ``placing.py`` reads those that are given, ``sight.py``
looks, ``games.py`` plays, ``scene.py`` draws.
"""
