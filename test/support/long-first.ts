import { BaseSequencer, type TestSpecification } from "vitest/node";

/**
 * A sequencer that starts the files that take longest first, so that the last ones are short and all cores are busy to the end. `paths` are their paths in the
 * repository, or those of folders. Files of a project stay together, because only then they share processes.
 */
export function longFirst(paths: readonly string[]): typeof BaseSequencer {
  const rank = ({ moduleId }: TestSpecification): number => {
    const place = paths.findIndex((path) => moduleId.includes(`/${path}`));
    return place === -1 ? paths.length : place;
  };
  return class extends BaseSequencer {
    override sort(files: TestSpecification[]): Promise<TestSpecification[]> {
      const sorted = files.toSorted((a, b) => rank(a) - rank(b) || a.moduleId.localeCompare(b.moduleId));
      return Promise.resolve([...Map.groupBy(sorted, ({ project }) => project).values()].flat());
    }
  };
}
