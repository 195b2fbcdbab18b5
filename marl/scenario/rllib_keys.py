"""Keys that other frameworks and older generations of their APIs know, and what says the same here.

They are refused like every unknown key, but with the way to go on instead of the nearest name, which might mislead. One table;
keys of ours must not stand in it (a test looks).
"""

from __future__ import annotations

TORCH = "networks are torch's, always; drop it"
EPSILON = (
    "exploration_config says it: {type: EpsilonGreedy, initial_epsilon: 1.0, final_epsilon: 0.05, epsilon_timesteps: 10000}; "
    "exponentially with epsilon_decay instead of epsilon_timesteps"
)
ENDINGS = (
    "an episode ends terminated or truncated, and only a truncated one is bootstrapped; horizon truncates; drop it"
)
REPLAY = "the keys of the replay are buffer_size, train_batch_size, learning_starts and prioritized_replay, under algo"
MORE_WORKERS = "every copy lives in its worker; for slow envs use more num_workers with fewer num_envs_per_worker"
ALWAYS = "it is always done; drop it"
FROM_ENV = "spaces are asked of the env; drop it"
ESTIMATES = "say off_policy_estimator: [is, wis, dr]; evaluation plays in the env, as `simulation` did"
LAST_100 = "a result covers the episodes of its iteration, or the last 100; drop it"

OLD_KEYS: dict[str, str] = {
    # frameworks and devices
    "framework": TORCH,
    "torch": TORCH,
    "use_pytorch": TORCH,
    "eager": TORCH,
    "eager_tracing": TORCH,
    "tf_session_args": TORCH,
    "local_tf_session_args": TORCH,
    "num_cpus_for_driver": "torch_threads says how many threads the driver computes with",
    "num_cpus_for_local_worker": "torch_threads says how many threads the driver computes with",
    "simple_optimizer": "num_learners says how many processes share every minibatch; drop it",
    # who, where and how long
    "run": "the algorithm is `algo: NAME`, or --run NAME of marl train",
    "algorithm": "the algorithm is `algo: NAME`",
    "config": "its keys stand in the scenario itself, one level further out",
    "local_dir": "say --local-dir DIR on the command line, or MARL_RESULTS_DIR",
    "max_episode": "say stop: {episodes_total: N}",
    "max_step": "say horizon: N, the longest episode",
    "max_episodes": "say stop: {episodes_total: N}",
    "max_steps": "say stop: {timesteps_total: N}; the longest episode is horizon",
    "checkpoint_at_end": ALWAYS,
    "model_save_fre": "say checkpoint_freq: N, in iterations",
    "save_best_model": ALWAYS,
    "save_fig": ALWAYS,
    "show_fig": "the curve is learning_curve.png of the run directory",
    "min_iter_time_s": "an iteration is measured in env steps: timesteps_per_iteration",
    "min_time_s_per_iteration": "an iteration is measured in env steps: timesteps_per_iteration",
    "min_sample_timesteps_per_iteration": "say timesteps_per_iteration: N",
    "metrics_smoothing_episodes": LAST_100,
    "metrics_num_episodes_for_smoothing": LAST_100,
    # workers
    "n_workers": "say num_workers: N",
    "mp_backend": "num_workers: 0 is one process, num_workers: N are N Ray workers",
    "num_rollout_workers": "say num_workers: N",
    "sample_async": "say collection: async",
    "sample_batch_size": "say rollout_fragment_length: N",
    "ignore_worker_failures": "say recreate_failed_workers: true or false",
    "sample_collector": "drop it",
    "compress_observations": "drop it; the wrapper grey_frames makes images small",
    "synchronize_filters": ALWAYS,
    "seed_envs": ALWAYS,
    # envs
    "observation_space": FROM_ENV,
    "action_space": FROM_ENV,
    "no_done_at_end": ENDINGS,
    "observation_fn": "wrap the env: wrappers: [package.module:function]",
    "disable_env_checking": "check_bounds: false leaves bounds alone; `marl check ENV` looks at an env before training",
    "remote_env": MORE_WORKERS,
    # policies
    "policy_graphs": "say multiagent: {policies: {...}}",
    "policies_cfg": "say multiagent: {policies: {...}}",
    "multi_agent": "the section is called multiagent",
    "count_steps_by": "env steps and agent steps are both counted: timesteps_total, agent_timesteps_total; drop it",
    "replay_mode": "vdn and qmix replay a team's decisions together, dqn an agent's own; drop it",
    # evaluation
    "evaluation_interval": "say evaluation: {interval: N}",
    "evaluation_num_episodes": "say evaluation: {episodes: N}",
    "evaluation_duration": "say evaluation: {episodes: N}",
    "evaluation_config": "say evaluation: {env_config: ..., explore: ..., policy_mapping_fn: ...}",
    "evaluation_num_workers": "the workers of training evaluate, on envs of their own; drop it",
    "online_eval": "say evaluation: {interval: N}; 0: none",
    "online_eval_episode": "say evaluation: {episodes: N}",
    "off_policy_estimation_methods": ESTIMATES,
    "input_evaluation": ESTIMATES,
    # recordings
    "output_compress_columns": "recordings are always compressed; drop it",
    "output_max_file_size": "a file holds 1000 episodes; drop it",
    "shuffle_buffer_size": "recordings are shuffled as a whole; drop it",
    "collect_traj": "say output: DIR",
    # models
    "squash_to_range": "say normalize_actions: true, which stretches -1..1 to the bounds of the space",
    "framestack": "say wrappers: [{frame_stack_v1: {stack_size: 4}}], or preprocessor_pref: deepmind",
    "num_framestacks": "say wrappers: [{frame_stack_v1: {stack_size: 4}}], or preprocessor_pref: deepmind",
    "custom_options": "say custom_model_config: {...}",
    "post_fcnet_hidden": "say post_fcnet_hiddens: [...]",
    "no_final_linear": "the last layer always has one unit per output; a custom_model decides about its own layers",
    "time_major": "models see rows of decisions and a carry, never a time axis; drop it",
    "_time_major": "models see rows of decisions and a carry, never a time axis; drop it",
    "use_default_native_models": "there is one kind of model; drop it",
    "_use_default_native_models": "there is one kind of model; drop it",
    "_disable_preprocessor_api": "a custom_preprocessor replaces the built-in one; drop it",
    # exploration
    "epsilon_start": EPSILON,
    "epsilon_end": EPSILON,
    "exploration_fraction": EPSILON,
    "exploration_initial_eps": EPSILON,
    "exploration_final_eps": EPSILON,
    "schedule_max_timesteps": EPSILON,
    # algorithms
    "lambda": "say gae_lambda",
    "lambda_": "say gae_lambda",
    "use_gae": "gae_lambda: 1.0 gives plain returns minus values; drop it",
    "use_critic": "pg learns without values, a2c and ppo with them; drop it",
    "minibatch_size": "say sgd_minibatch_size",
    "num_epochs": "say num_sgd_iter",
    "batch_size": "say train_batch_size",
    "target_update": "say target_update_every, in updates",
    "target_network_update_freq": "say target_update_every, in updates",
    "buffer_type": REPLAY,
    "replay_buffer_config": REPLAY,
    "replay_buffer_num_slots": REPLAY,
    "training_intensity": "say updates_per_step",
    "agent_id_key": "the mapper says who plays whom; drop it",
    "use_local_critic": "say critic_sees: own",
    "actor_hiddens": "say fcnet_hiddens under model, also per policy",
    "critic_hiddens": "say fcnet_hiddens under model, also per policy",
    "vf_share_weights": "say vf_share_layers under model",
    "callbacks_class": "say callbacks",
}
