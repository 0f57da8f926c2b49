import * as z from "zod";

/** With fewer files a coordinator does not start: workerd and this Node need about so many for themselves. */
const LEAST_FILES = 128;

/** How many files this process, and so workerd, may open: Node has raised the soft limit to the hard one. */
export function openFiles(): number {
  // Windows has no such limits.
  const { userLimits } = z.object({ userLimits: z.object({ open_files: z.object({ soft: z.unknown() }) }).optional() }).parse(process.report.getReport());
  const soft = userLimits?.open_files.soft;
  return typeof soft === "number" ? soft : Number.POSITIVE_INFINITY;
}

/** Why a coordinator cannot start where so many files are allowed; null if it can. */
export function tooFewFiles(files: number): string | null {
  return files < LEAST_FILES ? `only ${files} open files are allowed, and a coordinator needs at least ${LEAST_FILES}: allow more (ulimit -Hn)` : null;
}
