"""From dict envs to arrays and back, checked on the way."""
