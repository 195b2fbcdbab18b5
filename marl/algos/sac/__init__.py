"""Maximum-entropy actors with twin critics: SAC."""
