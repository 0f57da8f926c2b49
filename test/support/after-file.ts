import { afterAll } from "vitest";
import { finish } from "./finally.ts";

// For `setupFiles`, which run before each file: test files share a process and its modules, so every file ends what it started.
afterAll(finish);
