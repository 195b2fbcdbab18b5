"""Multi-agent-first reinforcement learning with game theory."""
