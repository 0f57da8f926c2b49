// A parent of an embedded runtime, to be killed by a test.
import { Embedded } from "../../src/worker/runtimes/embedded.ts";

const runtime = await Embedded.start();
process.stdout.write(`${JSON.stringify({ pid: runtime.pid, url: runtime.url })}\n`);
