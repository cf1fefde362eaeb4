/** The parts of `package.json` and `package-lock.json` that the rules read. */
export interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
  readonly allowScripts?: Readonly<Record<string, boolean>>
}

export interface LockEntry {
  readonly version?: string
  readonly integrity?: string
  readonly resolved?: string
  readonly link?: boolean
  readonly hasInstallScript?: boolean
}

export interface Lock extends LockEntry {
  readonly packages: Readonly<Record<string, LockEntry & Manifest>>
}

/**
 * Packages with an install script, and why it may be left out: nothing compiles at install, here or at a user.
 * `package.json` denies each of them, so the checks run without the scripts too.
 */
const SCRIPTS_LOOKED_AT: Readonly<Record<string, string>> = {
  '@photostructure/sqlite': 'only looks whether the prebuilt binary in the package fits, which it does on 6 platforms',
  '@foundry-rs/anvil': 'only looks whether the binary of the platform package is there',
}

const EXACT = /^\d+\.\d+\.\d+(-[\w.]+)?$/

/** Versions of direct dependencies that are ranges. */
export function unpinned(manifest: Manifest): string[] {
  return Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })
    .filter(([, version]) => !EXACT.test(version))
    .map(([name, version]) => `${name}@${version}`)
}

function nameIn(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

/** Entries of the lock that pin nothing, or that name where they came from. */
export function looseLock(lock: Lock): string[] {
  return Object.entries(lock.packages)
    .filter(([path, entry]) => path !== '' && !entry.link)
    .filter(([, entry]) => !entry.version || !entry.integrity || entry.resolved !== undefined)
    .map(([path]) => path)
}

/** Direct dependencies for which the lock holds another version than `package.json`. */
export function lockDiffers(manifest: Manifest, lock: Lock): string[] {
  return Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })
    .filter(([name, version]) => lock.packages[`node_modules/${name}`]?.version !== version)
    .map(([name]) => name)
}

/** Packages with an install script that nobody has looked at, or that `package.json` does not deny. */
export function installScripts(manifest: Manifest, lock: Lock): string[] {
  return Object.entries(lock.packages)
    .filter(([, entry]) => entry.hasInstallScript)
    .map(([path]) => nameIn(path))
    .filter((name) => !SCRIPTS_LOOKED_AT[name] || manifest.allowScripts?.[name] !== false)
}
