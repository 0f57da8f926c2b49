import { copySources } from "../../support/source-copy.ts";

/** Coordinators run from a copy of the sources, because an edit of the sources would restart them during a test. */
export function setup(): () => void {
  const { folder, remove } = copySources("conformance-snapshot");
  process.env.CONFORMANCE_ROOT = folder;
  return remove;
}
