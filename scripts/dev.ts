// npm run dev -- evm|svm: runs one coordinator for work on the code. Each edit of the sources starts it again.
import { runCommand } from "./one-coordinator.ts";

process.exitCode = await runCommand(process.argv.slice(2), "dev");
