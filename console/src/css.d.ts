// Style sheets are bundled by the build; an import of one has no value.
declare module "*.css";
