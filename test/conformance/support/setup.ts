import { afterAll } from "vitest";
import { endCoordinators } from "./coordinator.ts";
import { closeSockets } from "./worker.ts";

// Test files share a process and its modules, because loading them costs more than most files. So every file ends what it started.
afterAll(async () => {
  closeSockets();
  await endCoordinators();
});
