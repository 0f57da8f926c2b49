/** Seeds whose history, in this shape of the plan, runs into a bug that the core once had; each bug is also planted again in planted-bugs.ts. */
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
