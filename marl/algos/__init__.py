"""What learns: one folder per family of algorithms, which have one learner and one set of keys.

    central_critic/  PG, A2C, A3C, COMA, PPO, MAPPO, IMPALA        qmix/    DQN (IQL), VDN, QMIX, Ape-X
    maddpg/          DDPG, TD3, MADDPG, Ape-X DDPG                 sac/     SAC
    marwil/          MARWIL, behaviour cloning                     es/      evolution strategies
    nfsp/            neural fictitious self-play                   deep_cfr/  Deep CFR, ESCHER

Names of algorithms are in each folder's ``presets.py``, the equations at the head of its ``learner.py`` and in ``losses.py``.
``marl show ALGO`` prints the functions of one update in reading order.
"""
