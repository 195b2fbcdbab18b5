"""The rows of ``fields``: name | unit (none: not a single number) | what it means. Indented lines go on."""

ROWS = """
episode_reward_mean | reward | The mean over episodes of what all agents earned together in an episode. It covers the
    episodes that ended in this iteration, or the last 100 if fewer ended; null before the first one.
episode_reward_max | reward | The largest episode reward among the same episodes as in episode_reward_mean.
episode_reward_min | reward | The smallest episode reward among the same episodes as in episode_reward_mean.
episode_len_mean | env steps | The mean length of the same episodes.
policy_reward_mean.POLICY | reward | What the policy earned in an episode, summed over all agents that it played
    there, as the mean over the episodes in which it played.
policy_reward_max.POLICY | reward | The most that the policy earned in one of these episodes, summed over all agents
    that it played.
policy_reward_min.POLICY | reward | The least that the policy earned in one of these episodes, summed over all agents
    that it played.
policy_reward_mean | | One number per policy: see policy_reward_mean.POLICY.
policy_reward_max | | One number per policy: see policy_reward_max.POLICY.
policy_reward_min | | One number per policy: see policy_reward_min.POLICY.
agent_reward_mean.AGENT | reward | What this agent earned in an episode, as the mean over the episodes in which it was
    there. Rewards that arrive after its own end count.
agent_reward_mean | | One number per agent that was there: see agent_reward_mean.AGENT.
hist_stats.episode_reward | | The rewards of the single episodes behind episode_reward_mean, oldest first, at most the
    newest 1000.
hist_stats.episode_lengths | | The lengths of the same episodes, in env steps.
hist_stats.policy_POLICY_reward | | What the policy earned in each of the episodes in which it played.
hist_stats.NAME | | The values that your callbacks put into episode.hist_data under this name.
custom_metrics.NAME_mean | your unit | The mean over episodes of a number that your callbacks put into
    episode.custom_metrics.
custom_metrics.NAME_min | your unit | The smallest value of that number among the same episodes.
custom_metrics.NAME_max | your unit | The largest value of that number among the same episodes.
custom_metrics | | Numbers of your callbacks: mean, min and max over episodes of each. Empty without callbacks.
episode_media.NAME | | Files with the pictures that your callbacks put into episode.media, as paths inside the run
    directory.
episode_media | | Pictures of your callbacks. Empty without callbacks.
evaluation.episodes | episodes | How many episodes this evaluation played.
evaluation | | The numbers of this iteration's evaluation; only there when one was due.
off_policy_estimator.POLICY.ESTIMATOR.value | reward | What the policy's agents would earn in an episode, by this estimator on
    recorded episodes (input); null where none of these holds only actions that the policy might take.
off_policy_estimator.POLICY.ESTIMATOR.low | reward | The lower end of its 95 % interval.
off_policy_estimator.POLICY.ESTIMATOR.high | reward | The upper end of its 95 % interval.
off_policy_estimator.POLICY.recorded.value | reward | What the same agents earned in the recorded episodes, on average.
off_policy_estimator.POLICY.recorded.low | reward | The lower end of the 95 % interval of that mean.
off_policy_estimator.POLICY.recorded.high | reward | The upper end of the 95 % interval of that mean.
off_policy_estimator.POLICY.episodes | episodes | How many recorded episodes there are.
off_policy_estimator.POLICY.effective_episodes | episodes | How many episodes of the policy's own they are worth. Few of many:
    the policy does other things than those who were recorded, and estimates tell little.
off_policy_estimator | | Estimates by recorded episodes, one block per policy; only there when they were due.
episodes_this_iter | episodes | How many episodes ended in this iteration.
episodes_total | episodes | How many episodes have ended since the run began.
training_iteration | iterations | How many iterations the run has made; an iteration is collecting and learning until
    a result is due.
timesteps_this_iter | env steps | Env steps collected in this iteration. One env step is one step of one copy of the
    env, however many agents act in it.
timesteps_total | env steps | Env steps collected since the run began; the horizontal axis of learning curves.
agent_timesteps_this_iter | decisions | Decisions of single agents in this iteration: two agents that act in every
    step make two per env step.
agent_timesteps_total | decisions | Decisions of single agents since the run began.
num_healthy_workers | workers | Workers that answer. A Ray worker that died is replaced, unless
    recreate_failed_workers is false.
best_evaluation | reward | The best value so far of the field that evaluation.metric names; the checkpoint called best
    is from that moment.
done | | Whether this is the last result, because a stop condition was met.
policies_to_train | | The policies that learn at present; all others stay as they are.
curriculum.stage | stages | The stage of the curriculum in which this iteration was played; the first one is 0.
curriculum.num_stages | stages | How many stages the curriculum has, with the scenario's own env where that comes last.
curriculum.timesteps_this_stage | env steps | Env steps collected since the present stage began.
curriculum.num_episodes_cut | episodes | Episodes that were broken off because a new stage began; they count nowhere else.
curriculum | | Where the run is in its curriculum; only there where the scenario has one.
seed | | The seed of the run, which decides everything that is random in it.
trial_id | | A short random name of this run; part of its directory's name.
experiment_id | | The same for all runs of one command, for instance for several seeds; kept by a run that is resumed.
date | | When the result was written: year-month-day_hour-minute-second, local time.
timestamp | | When the result was written, in seconds since 1970.
time_this_iter_s | seconds | How long this iteration took, evaluation included, by the clock on the wall.
time_total_s | seconds | How long all iterations took together, also those before the run was resumed.
pid | | The number of the process that trained.
hostname | | The name of the machine that trained.
node_ip | | The network address of that machine.
git.commit | | The commit of the git repository in which the run was started.
git.changed | | Whether tracked files of that repository differed from the commit, so that the commit alone does not
    tell what ran.
git | | The commit in which the run was started; null outside of a git repository.
versions.PACKAGE | | The version of this package (or of Python), on which exact numbers may depend.
config | | The complete scenario of the run. `marl config --all` explains its keys.
timers.sample_time_ms | ms | How long this iteration collected: envs and acting policies, as the driver waits for
    them.
timers.load_time_ms | ms | How long learners took to turn what was collected into rows to learn from: replays,
    advantages, sending to other learners.
timers.learn_time_ms | ms | How long learners learned in this iteration, without loading.
timers.sync_time_ms | ms | How long it took to bring new weights to the workers.
timers.evaluation_time_ms | ms | How long the evaluation of this iteration took; 0 when none was due.
timers.exploitability_time_ms | ms | How long it took to measure the exploitability.
timers.population_time_ms | ms | How long the end of a population's round took: matches between members, and the new
    mixture.
timers.sample_throughput | env steps per second | Env steps of this iteration per second of collecting.
timers.load_throughput | env steps per second | Env steps of this iteration per second of loading.
timers.learn_throughput | env steps per second | Env steps of this iteration per second of learning.
sampler_perf.mean_raw_obs_processing_ms | ms | Per step of a worker: checking, sorting and storing what the envs
    showed. A worker steps all its copies of the env together; that is one step here.
sampler_perf.mean_inference_ms | ms | Per step of a worker: the policies' forward passes.
sampler_perf.mean_action_processing_ms | ms | Per step of a worker: storing the actions and bringing them into the
    envs' units.
sampler_perf.mean_env_wait_ms | ms | Per step of a worker: waiting for the envs, resets included.
sampler_perf.mean_env_render_ms | ms | Drawing one picture of the env for films and screens (record_env,
    render_env); 0 where none was drawn in this iteration.
perf.cpu_util_percent | percent | Load of all CPUs of the driver's machine since the result before, by all processes.
perf.ram_util_percent | percent | Memory of the driver's machine that is in use, by all processes.
perf.gpu_NUMBER_ram_util_percent | percent | Memory of this GPU that is in use.
info.num_steps_sampled | env steps | Env steps collected since the run began, as timesteps_total.
info.num_agent_steps_sampled | decisions | Decisions of single agents since the run began, as agent_timesteps_total.
info.num_steps_trained | rows | Rows that went into updates since the run began, summed over learners: env steps for
    algorithms that learn from fresh data, drawn rows for those with a replay, where a row counts each time it is
    drawn.
info.num_agent_steps_trained | decisions | Decisions of single agents in these rows.
info.num_updates | updates | Gradient steps since the run began, summed over learners.
info.num_actor_updates | updates | Gradient steps of actors alone; td3 makes fewer of them than of critics.
info.num_target_updates | updates | How often target networks, the slow copies that learning aims at, were moved
    towards the learning ones.
info.last_target_update_ts | env steps | When target networks were last moved, in env steps that their policy has
    learned from.
info.num_decisions_lost | decisions | Decisions that nobody learned from, because their agent was cut off without a
    last observation.
info.num_passes | passes | How often a run on recorded episodes (input) has gone through all of them.
info.policy_lag_mean | versions | Asynchronous or overlapping collection, and clients that play on while learners learn:
    by how many changes of the weights the newest 100 fragments (of overlapping workers: rounds) were older than the
    learners, on average.
info.policy_lag_max | versions | The largest such lag among the newest 100 fragments.
info.stale_steps_dropped | env steps | Clients that play on while learners learn: env steps since the run began that older
    weights have played, and that learners from their newest weights' own play (ppo, a2c, pg) therefore did not get.
info.num_clients | sessions | Clients of an external env that have a session now.
info.learner.POLICY.td_error | | With full_td_error: the absolute difference between value and target of each row of
    the newest training batch.
info.learner | | Numbers of the learners, one block per policy that learns; empty before the first update.
info.learner.POLICY | | The numbers of one policy that learns.
info.learner.POLICY.learner_stats | | Numbers of one policy's last updates.
info.learner.POLICY.learner_stats.cur_lr | per update | The optimiser's step size now, after its schedule.
info.learner.POLICY.learner_stats.cur_actor_lr | per update | The step size of the actor now.
info.learner.POLICY.learner_stats.cur_critic_lr | per update | The step size of the critics now.
info.learner.POLICY.learner_stats.grad_norm | norm | Length of the policy's gradient before it is clipped (grad_clip).
    Sudden jumps are an early sign of trouble.
info.learner.POLICY.learner_stats.critic_grad_norm | norm | Length of the critics' gradient before it is clipped.
info.learner.POLICY.learner_stats.intrinsic_reward_mean | reward | What the learner paid a decision for novelty, times
    coeff, as the mean since the last update (algo.intrinsic). It is part of no other reward in a result.
info.learner.POLICY.learner_stats.intrinsic_loss | loss | How badly the network of rnd predicts what it sees: its mean
    squared error.
info.learner.POLICY.learner_stats.total_loss | loss | What the optimiser made smaller: the sum of all parts of the
    loss.
info.learner.POLICY.learner_stats.policy_loss | loss | The part of the loss that moves the policy towards better
    actions. Its size says little; it need not go down.
info.learner.POLICY.learner_stats.vf_loss | squared reward | Mean squared error of the critic against the returns that
    it should predict; with normalize_values both are scaled, so it has no unit.
info.learner.POLICY.learner_stats.vf_explained_var | share | How much of the variation of returns the critic explains:
    1 all of it, 0 no more than their mean does, below 0 worse.
info.learner.POLICY.learner_stats.entropy | nats | How undecided the policy is: 0 when it always does the same, the
    logarithm of the number of options when it draws evenly.
info.learner.POLICY.learner_stats.entropy_coeff | weight | The weight of the entropy in the loss now, after its
    schedule.
info.learner.POLICY.learner_stats.kl | nats | How far the updates moved the policy away from the one that collected
    the data (Kullback-Leibler divergence).
info.learner.POLICY.learner_stats.cur_kl_coeff | weight | The weight of that distance in the loss now; it adapts to
    kl_target.
info.learner.POLICY.learner_stats.backward_kl | nats | How far the policy has moved from the one before the training
    batch, as backward_kl_coeff weighs it: KL(new || old).
info.learner.POLICY.learner_stats.mean_factor | ratio | How much more likely, on the mean, those of the group that learned
    before this policy have made what they did; 1 for the first one (happo).
info.learner.POLICY.learner_stats.magnet_kl | nats | How far the policy is from its magnet, the slow copy that pulls
    it back.
info.learner.POLICY.learner_stats.td_loss | squared reward | Mean squared temporal difference: how far the values are
    from reward plus discounted next value. With normalize_rewards: in squares of the network's unit. With num_atoms above 1:
    the cross entropy between distributions, in nats.
info.learner.POLICY.learner_stats.mean_td_error | reward | Mean absolute difference between the values of what was
    done and their targets.
info.learner.POLICY.learner_stats.mean_q | reward | Mean value that the learner gives to what was done. Far above the
    real returns, it overestimates.
info.learner.POLICY.learner_stats.min_q | reward | The smallest of these values in a training batch.
info.learner.POLICY.learner_stats.max_q | reward | The largest of these values in a training batch.
info.learner.POLICY.learner_stats.min_return | reward | The lowest return that the rewards seen so far can explain:
    what the worst episodes paid; what is cut off counts as if it went on for ever.
info.learner.POLICY.learner_stats.max_return | reward | The highest such return. Where max_q stays far above it, a
    note says so once: the values feed on their own mistakes.
info.learner.POLICY.learner_stats.critic_loss | squared reward | Mean squared error of the critics against their
    targets.
info.learner.POLICY.learner_stats.actor_loss | reward | Minus the value that the critic gives to what the actor would
    do; the actor makes it smaller.
info.learner.POLICY.learner_stats.alpha | reward per nat | sac's temperature: how much reward a nat of entropy is
    worth.
info.learner.POLICY.learner_stats.target_entropy | nats | The entropy towards which sac steers its temperature.
info.learner.POLICY.learner_stats.score_mean | reward | Evolution: mean reward of the perturbed policies of the last
    round.
info.learner.POLICY.learner_stats.score_max | reward | Evolution: reward of the best perturbed policy.
info.learner.POLICY.learner_stats.score_min | reward | Evolution: reward of the worst perturbed policy.
info.learner.POLICY.learner_stats.weights_norm | norm | Evolution: length of the vector of all weights.
info.learner.POLICY.learner_stats.mean_weight | weight | marwil: mean weight of the imitated decisions; those that
    paid more than expected weigh more.
info.learner.POLICY.learner_stats.max_weight | weight | marwil: the largest of these weights.
info.learner.POLICY.learner_stats.sqd_adv_norm | squared reward | marwil: the running mean of squared advantages by
    which advantages are scaled.
info.learner.POLICY.learner_stats.average_loss | nats | Average policies (nfsp, deep_cfr, escher): how badly
    they imitate the best responses, or the strategies, of the past.
info.learner.POLICY.learner_stats.average_entropy | nats | Average policies (nfsp, deep_cfr, escher): how
    undecided they are.
info.learner.POLICY.learner_stats.average_grad_norm | norm | Average policies (nfsp, deep_cfr, escher): length of
    their gradient before it is clipped.
info.learner.POLICY.learner_stats.reservoir_rows | decisions | Average policies (nfsp, deep_cfr, escher): decisions of best
    responses, or strategies, that are kept for imitation.
info.learner.POLICY.learner_stats.regret_loss | squared reward | Regrets (deep_cfr, escher): how far the network
    is from the regrets that were kept; most of it is luck of single games.
info.learner.POLICY.learner_stats.regret_rows | decisions | Regrets (deep_cfr, escher): decisions whose regrets are kept.
info.learner.POLICY.learner_stats.states | states | Tables (q_learning, sarsa, monte_carlo): states that the table has met and
    decided in.
info.learner.POLICY.learner_stats.NAME | your unit | A number that your own loss or algorithm reports under this name.
exploitability.nash_conv | reward | What all players together could gain if each, alone, switched to its best reply. 0
    is an equilibrium; smaller is better.
exploitability.exploitability | reward | NashConv divided by the number of players.
exploitability.stderr | reward | Standard error of NashConv where it was measured by playing or chance was sampled; 0
    where it is exact. A goal counts as reached when NashConv + 2 standard errors reach it.
exploitability.exploitability_stderr | reward | Standard error of exploitability.exploitability.
exploitability.gains.PLAYER | reward | What this player could gain by its best reply.
exploitability.errors.PLAYER | reward | Standard error of that gain.
exploitability.errors | | Standard errors of the gains, player by player; 0 where they are exact.
exploitability.bound | | What the figure is. Exact; sampled chance: reset seeds stand for chance, see stderr; or lower
    bound: trained replies may miss the best one, so the truth is at least this.
exploitability.exact | | Whether nothing was sampled, estimated or trained: true or false.
exploitability.chance.mode | | How chance came into the game's tree: none, exact (the env lists it), or sampled (by seeds).
exploitability.chance.seeds | seeds | Reset seeds that stand for chance, where it is sampled.
exploitability.chance.starts | starts | How many different starts these seeds gave.
exploitability.chance.unseen | probability | About how likely another seed gives a start that none of these gave.
exploitability.chance | | How chance came into the game; empty where best responses were trained instead.
exploitability.why | | Why no better method could be taken, in the words of those that refused; empty where the best one was.
exploitability.method | | How it was measured. tree: every reply in the game's tree. merged: every reply, by distinct
    positions. projected: replies to what policies with a memory do on average. trained: replies that were trained.
exploitability.effort.nodes | nodes | Size of the game's tree, where that is the method.
exploitability.effort.positions | positions | Distinct positions of the game, where that is the method.
exploitability.effort.information_sets | information sets | Information sets of all players.
exploitability.effort.timesteps | env steps | Env steps of training that were planned.
exploitability.effort.episodes | episodes | Episodes that were played.
exploitability.effort.seconds | seconds | What a measurement was expected to take.
exploitability.effort | | What a measurement costs, as known before it is made.
exploitability.sharing | | Groups of agents whose exploiter knows all that any member sees, which members who may not talk
    do not: their gains are at most these. Only there where groups are measured by merged positions.
exploitability.beside.METHOD.nash_conv | reward | NashConv by another method that was asked as well.
exploitability.beside.METHOD.stderr | reward | The standard error of that NashConv.
exploitability.beside.METHOD.bound | | What that figure is: a lower bound.
exploitability.beside | | What other methods found; only there where several were asked.
exploitability.training_iteration | iterations | The iteration whose policies were measured, where a process of its own
    measures: the answer comes in a later one.
exploitability.timesteps_total | env steps | The env steps after which these policies were taken.
exploitability.seconds | seconds | What the measurement took in its own process.
exploitability.timesteps | env steps | Env steps that training the replies took; 0 where nothing was trained.
population.round | rounds | Rounds of the population that have ended; in each, snapshots join and opponents are mixed
    anew.
population.members.SIDE | members | How many snapshots this side of the game has.
population.meta_strategy.PLAYER | | With which chance each member of this player's population is drawn as an opponent,
    oldest first.
population.empirical_nash_conv | reward | NashConv of the mixture within the table of measured payoffs: what players
    could gain by choosing other members.
population.values.PLAYER | reward | What this player earns when all players draw from their mixtures.
population.gain_of_round | reward | What the newest members earn more than the mixtures that they were trained
    against, summed over players; near 0 nothing better was found.
population | | Numbers of the population; empty before its first round has ended.
"""
