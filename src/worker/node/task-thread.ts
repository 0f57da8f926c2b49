// The thread that runs tasks in Node; desktop-worker.ts starts it.
import { parentPort } from "node:worker_threads";
import { answerCall, type TaskCall } from "../../tasks/index.ts";

parentPort?.on("message", (call: TaskCall) => {
  parentPort?.postMessage(answerCall(call));
});
