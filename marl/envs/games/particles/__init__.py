"""Games of round bodies on a plane, thousands of copies at once.

They follow the rules of ``mpe2``'s simple_spread_v3, simple_tag_v3, simple_speaker_listener_v4, simple_adversary_v3,
simple_push_v3, simple_crypto_v3, simple_reference_v3 and simple_world_comm_v3 step for step; the code is our own and works
on arrays. ``physics.py`` moves, ``observations.py`` looks, ``words.py`` speaks, ``seeding.py`` draws layouts from seeds,
``drawing.py`` paints, ``games.py`` is what the games share, ``hidden_goals.py`` what those with secrets share.
"""
