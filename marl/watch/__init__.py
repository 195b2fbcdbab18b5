"""``marl watch``: a page in the browser on which one sees runs, replays episodes, plays, and looks into games."""
