import { sqlite } from '../../store/sqlite/index.ts'
import type { World } from '../../util/world.ts'
import { type Application, application } from './application.ts'
import type { Backend, DriverEvents } from './backend.ts'
import { CrashDriver } from './crash-driver.ts'
import { Disk } from './disk.ts'
import { Inspector } from './inspector.ts'
import type { SwarmOptions } from './options.ts'

/** The default: a file of the run's own. */
export class SqliteBackend implements Backend {
  readonly shared = false
  readonly copies = null
  readonly application = application
  readonly processes = ({ processes }: SwarmOptions) => processes
  readonly #disk: Disk
  #made = false

  constructor({ folder }: SwarmOptions) {
    this.#disk = new Disk(folder)
  }

  inspect({ schema }: Application): Inspector {
    const inspector = new Inspector(this.#disk.file)
    if (!this.#made) inspector.exec(schema)
    this.#made = true
    return inspector
  }

  driver(events: DriverEvents): CrashDriver {
    return new CrashDriver({ snapshot: () => this.#disk.snapshot(), ...events })
  }

  store(driver: CrashDriver, world: World) {
    return sqlite({ file: this.#disk.file, open: driver.open, busyTimeoutMs: 0, world })
  }

  personStore(world: World) {
    return sqlite({ file: this.#disk.file, busyTimeoutMs: 0, world })
  }

  checkCommit(): void {}

  goOn(): void {
    this.#disk.useSnapshot()
  }

  close(): void {
    this.#disk.remove()
  }
}
