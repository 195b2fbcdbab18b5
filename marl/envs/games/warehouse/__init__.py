"""Robot warehouses, thousands of copies at once.

The rules are those of ``rware`` 2.0.0, step for step; the code is our own and works on arrays. ``config.py`` knows the keys
and ids, ``floor.py`` the floor plan, ``right_of_way.py`` says who may move, ``sensors.py`` looks, ``placing.py`` reads starts
that are given, ``games.py`` plays, ``scene.py`` draws.
"""
