"""Who plays: agent to policy."""
