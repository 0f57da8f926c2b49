/** npm passes a Ctrl-C on that the terminal has already delivered. */
const SAME_KEYPRESS_MS = 1_000;

/** Resolves at the first Ctrl-C or SIGTERM. A later one, for the impatient, ends this process; its children follow by themselves. */
export function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    let first: number | null = null;
    const on = (signal: NodeJS.Signals): void => {
      if (first !== null && Date.now() - first > SAME_KEYPRESS_MS) process.exit(1);
      first ??= Date.now();
      resolve(signal);
    };
    process.on("SIGINT", on).on("SIGTERM", on).on("SIGHUP", on);
  });
}
