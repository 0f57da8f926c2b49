// The thread that runs tasks in a browser; main.ts starts it.
import { answerCall, type TaskCall } from "../../tasks/index.ts";

declare const self: DedicatedWorkerGlobalScope;

self.addEventListener("message", ({ data }: MessageEvent<TaskCall>) => {
  self.postMessage(answerCall(data));
});
