"""Looking at an installation and its speed: doctor, debug, measurements."""
