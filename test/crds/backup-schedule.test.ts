import { CronExpressionParser } from 'cron-parser'
import t from 'tap'
import { CRON_PATTERN } from '../../crds/cron.ts'
import { CRON_EXPRESSIONS } from './corpus/backup.ts'

const impossible = '0 0 30 2 *'

for (const expression of CRON_EXPRESSIONS.filter((one) => one !== impossible)) {
  t.test(`${expression} is admitted and has slots`, async (t) => {
    t.match(expression, new RegExp(CRON_PATTERN))
    t.ok(CronExpressionParser.parse(expression, { tz: 'UTC' }).next())
  })
}

t.test('an expression that matches no day is admitted: the hook reports it', async (t) => {
  t.match(impossible, new RegExp(CRON_PATTERN))
  t.throws(() => CronExpressionParser.parse(impossible, { tz: 'UTC' }).next())
})
