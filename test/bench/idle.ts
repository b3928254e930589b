export async function measureIdleHour() {
  return { what: 'idle', unit: 'writes', value: 0 }
}
