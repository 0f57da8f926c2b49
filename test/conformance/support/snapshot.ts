import { copySources } from "../../support/source-copy.ts";

/** Coordinators run from a copy: an edit of the sources would restart them in the middle of a test. */
export function setup(): () => void {
  const { folder, remove } = copySources("conformance-snapshot");
  process.env.CONFORMANCE_ROOT = folder;
  return remove;
}
