"""Games of round bodies on a plane, thousands of copies at once.

They follow the rules of ``mpe2``'s simple_spread_v3, simple_tag_v3 and simple_speaker_listener_v4 step for step; the code is
our own and works on arrays. ``bodies.py`` moves, ``sight.py`` looks, ``luck.py`` draws layouts from seeds, ``drawing.py``
paints, ``games.py`` is what the three games share.
"""
