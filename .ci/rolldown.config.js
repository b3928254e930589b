/** The program as the image has it: what is started, and in chunks what these need of us and of packages. */
export default {
  input: {
    'metacontroller/serve': 'metacontroller/serve.ts',
    'metacontroller/install-check': 'metacontroller/install-check.ts',
    'metacontroller/uninstall-check': 'metacontroller/uninstall-check.ts',
    'jobs/main': 'jobs/main.ts',
  },
  platform: 'node',
  // ws would be quicker with these, and looks whether they are there.
  external: ['bufferutil', 'utf-8-validate'],
  // The image has no packages: what is not found here would not be found there.
  onLog(level, log, handler) {
    handler(level === 'warn' ? 'error' : level, log)
  },
  output: {
    dir: 'dist/app',
    cleanDir: true,
    entryFileNames: '[name].js',
    chunkFileNames: 'chunks/[name]-[hash].js',
    // Names of classes and functions stand in logs and stacks.
    keepNames: true,
  },
}
