"""Action values, mixed or apart: DQN, VDN, QMIX."""
