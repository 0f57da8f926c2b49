import { copySources } from "../../support/source-copy.ts";

/** Coordinators run from a copy of the sources, because an edit of the sources would restart them during a test. All projects of a run share it. */
export function setup(): (() => void) | undefined {
  if (process.env.CONFORMANCE_ROOT !== undefined) return undefined;
  const { folder, remove } = copySources("conformance-snapshot");
  process.env.CONFORMANCE_ROOT = folder;
  return () => {
    delete process.env.CONFORMANCE_ROOT;
    remove();
  };
}
