"""One report on a game and on those who were trained for it: text, JSON and a page that needs no network."""
