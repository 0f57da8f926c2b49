/**
 * Seeds whose history without payments, in this shape of the plan, runs into a bug that the core once had; each bug is also planted again in planted-bugs.ts.
 */
export const REGRESSION_SEEDS: readonly { rule: string; seed: number; found: string }[] = [
  { rule: "[JB4]", seed: 8, found: "an idle hub that sleeps granted execution and grace time anew at every wake-up, so that they never ended" },
  { rule: "[WS10]", seed: 12, found: "a job listed twice in `resume` was rebound by the first entry and cancelled by the second" },
  { rule: "[JB3]", seed: 19, found: "the tick offered jobs that others had tried in order of arrival, CHEAP before FAST" },
  { rule: "[JB5]", seed: 48, found: "a worker that rejected at every tick kept a job past its claim window, up to the total deadline" },
  { rule: "[WS11]", seed: 54, found: "a draining worker got a new job after the hub had lost its memory" },
  { rule: "[RC4]", seed: 115, found: "the third strike came after the requeue: the worker got a job and lost it in one turn, and the job an attempt" },
  { rule: "[JB3]", seed: 697, found: "a newly paired worker took the first job by arrival and not by order" },
  { rule: "[JB4]", seed: 930, found: "failures that are not retryable did not make a worker rest, so that one broken worker could end a whole queue" },
  { rule: "[JB4]", seed: 129_408, found: "a late alarm gave a freed worker a job whose total deadline had passed, and took it away in the same turn" },
];

/** Those that found something about money. */
export const REGRESSION_MONEY_SEEDS: typeof REGRESSION_SEEDS = [
  { rule: "[PY8]", seed: 2, found: "the total deadline ended a job whose settlement was unknown, before its authorization had expired" },
  { rule: "[PY6]", seed: 3, found: "a payment that came again was answered with the job that another request had bought with its credit" },
  { rule: "[PY8]", seed: 26, found: "a refusal after an unknown outcome was believed, though the first call still moved the money: charged for nothing" },
  { rule: "[PY8]", seed: 102, found: "an outcome unknown after the authorization had expired kept the job for minutes more" },
  { rule: "[PY7]", seed: 152, found: "a worker that fell silent while a payment was settled was given the job" },
  { rule: "[PY7]", seed: 628, found: "a job whose payment waited for its turn was claimed again and again, past its claim window" },
  { rule: "[ST1]", seed: 1725, found: "a worker that lost its tier while a payment was settled was given the job" },
  { rule: "[PY6]", seed: 16_533, found: "a submit whose reservation was over was answered with the job of whoever had reserved the payment since" },
];
