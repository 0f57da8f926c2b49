// Loaded into a Node process before its program: SIGUSR2 sets its wall clock back by an hour.
let ahead = 0;
const now = Date.now;
Date.now = () => now() + ahead;
process.on("SIGUSR2", () => void (ahead -= 3_600_000));
