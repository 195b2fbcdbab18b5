"""Overcooked: two cooks in a kitchen of cells, thousands of copies at once.

It follows the rules of JaxMARL's ``overcooked`` (0.2.0) step for step; the code is our own and works on arrays.
``layouts.py`` reads kitchens, ``rules.py`` says what a cook's reach does, ``views.py`` holds what both see and ``kitchens.py``
plays.
"""
