import { type ErrorDetails, NotFoundError } from "./errors.ts";

/**
 * No worker offers the model of the job, nor did in the last minutes (404). There is no job, and nothing was charged. `reason` is `no_such_model`.
 *
 * @example
 * if (error instanceof NoSuchModelError) console.log(`Choose one of: ${error.models.join(", ")}`);
 */
export class NoSuchModelError extends NotFoundError {
  override readonly name = "NoSuchModelError";
  override readonly code = "no_such_model";
  /** The models that are online now, as `models` lists them. */
  readonly models: readonly string[];

  /**
   * @param models the models that are online now
   * @param details status, request id and reason
   */
  constructor(models: readonly string[], details: ErrorDetails) {
    super(`no worker offers this model; online: ${models.length === 0 ? "none" : models.join(", ")}`, details);
    this.models = models;
  }
}
