import { fileURLToPath } from "node:url";

/** The two instances of SPEC.md. */
export const INSTANCES = ["evm", "svm"] as const;
/** One instance of the coordinator. */
export type Instance = (typeof INSTANCES)[number];

/** Where each instance listens unless told otherwise [SPEC]. */
export const DEFAULT_PORT: Record<Instance, number> = { evm: 4010, svm: 4020 };

/** The repository's folder. */
export const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Whether `text` names an instance. */
export function isInstance(text: string | undefined): text is Instance {
  return INSTANCES.some((instance) => instance === text);
}
