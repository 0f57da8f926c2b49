// Ctrl-C at a command that waits.

/** Signals within this time are one: npm forwards a Ctrl-C that the terminal has already delivered, and a closed terminal sends SIGHUP before npm's SIGTERM. */
export const SAME_KEYPRESS_MS = 1_000;

/** Calls `listener` at the first Ctrl-C. A later one ends the program immediately. Returns a function that ends the wait. */
export function onCtrlC(listener: () => void): () => void {
  let heard = false;
  const onSignal = () => {
    if (heard) return;
    heard = true;
    setTimeout(() => process.off("SIGINT", onSignal), SAME_KEYPRESS_MS).unref();
    listener();
  };
  process.on("SIGINT", onSignal);
  return () => {
    if (!heard) process.off("SIGINT", onSignal);
  };
}
