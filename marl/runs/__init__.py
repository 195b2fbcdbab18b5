"""What a run leaves on disk: checkpoints, result files, directories, locks, and how a saved run is opened."""
