"""Games, equilibria and rankings: exact where the game is small, estimated with an error where it is not."""
