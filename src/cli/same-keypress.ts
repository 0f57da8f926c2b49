/** Signals within this time are one: npm forwards a Ctrl-C that the terminal has already delivered, and a closed terminal sends SIGHUP before npm's SIGTERM. */
export const SAME_KEYPRESS_MS = 1_000;
