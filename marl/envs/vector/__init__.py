"""From dict worlds to arrays and back, checked on the way."""
