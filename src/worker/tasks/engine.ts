/** Name of this engine, announced in `register`. Two workers of one name give equal outputs: bump it whenever any output may change. */
export const ENGINE = "tasks/2.1";
