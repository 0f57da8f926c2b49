export { configFolder, makeFolder } from "./config-folder.ts";
export { DesktopWorker, type DesktopOptions, type WorkerNote } from "./desktop-worker.ts";
export { codeOf, defaultKeyFile, placeOnce, readKeyFile, readOrMakeKeyFile } from "./key-file.ts";
export { lockWorker, workerId } from "./worker-lock.ts";
export { llmFinder, type LlmWish } from "./llm-finder.ts";
export { shortKey } from "./worker-status.ts";
export { jsonView, lineView, type WorkerView } from "./worker-view.ts";
