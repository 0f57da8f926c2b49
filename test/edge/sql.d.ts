declare module "*.sql?raw" {
  const text: string;
  // vite's own form of such a module.
  export default text;
}
