import { afterEach, type TestAPI } from 'vitest'
import { describeMysql } from '../support/mysql.ts'
import { describePostgres } from '../support/postgres.ts'
import type { Kind } from './database.ts'
import { Stage } from './stage.ts'

type Open = (label: string, options?: { remember?: boolean }) => Promise<Stage>

/** The same tests on each database, each on a stage of its own that is gone after it. */
export function onBoth(name: string, register: (test: TestAPI, open: Open, kind: Kind) => void, vitest: TestAPI): void {
  let stage: Stage | undefined
  afterEach(async () => {
    await stage?.close()
    stage = undefined
  })
  const opener =
    (kind: Kind): Open =>
    async (label, options) => {
      stage = await Stage.open(kind, label, options)
      return stage
    }
  describePostgres(`${name}, PostgreSQL`, () => register(vitest, opener('postgres'), 'postgres'))
  describeMysql(`${name}, MariaDB`, () => register(vitest, opener('mysql'), 'mysql'))
}
