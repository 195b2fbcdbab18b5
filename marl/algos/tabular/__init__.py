"""Tables of action values: Q-learning, Sarsa, Monte Carlo."""
