/** How much CPU `run` takes on this thread, in ms. What other processes do meanwhile does not count, so a bound on it holds on a busy machine too. */
export function cpuTimeOf(run: () => void): number {
  const before = process.threadCpuUsage();
  run();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
