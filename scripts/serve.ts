// npm run serve -- evm|svm: runs one coordinator for real use, without Cloudflare. docs/self-hosting.md describes it.
import { runCommand } from "./one-coordinator.ts";

process.exitCode = await runCommand(process.argv.slice(2), "serve");
