/** Which process dialled, from the kernel's connection table, which only Linux has. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import t from 'tap'
import { dialerOf } from './dialer.ts'

const SCRIPT = `require('node:net').connect(Number(process.argv[1]), '127.0.0.9')`

t.test(
  'of two processes the one that dialled is named',
  { skip: process.platform === 'linux' ? false : 'needs /proc' },
  async (t) => {
    const server = createServer()
    server.listen(0, '127.0.0.9')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const dial = async () => {
      const child = spawn(process.execPath, ['-e', SCRIPT, String(port)], { stdio: 'ignore' })
      t.teardown(() => child.kill('SIGKILL'))
      const [socket] = (await once(server, 'connection')) as [Socket]
      socket.on('error', () => undefined)
      return { pid: child.pid ?? 0, socket }
    }
    const first = await dial()
    const second = await dial()
    const pids = [second.pid, first.pid, process.pid]
    t.equal(dialerOf(first.socket, pids), first.pid)
    t.equal(dialerOf(second.socket, pids), second.pid)
    t.equal(dialerOf(second.socket, [first.pid]), undefined)
    server.close()
  },
)
