# Runs a program ("$@") as long as standard input is open: whoever holds its other end may end in any way, and the
# program ends with it. A program that ends first is told of in the log. Then removes the program's folder ($FOLDER).
"$@" </dev/null &
program=$!
while kill -0 "$program" 2>/dev/null; do
  read -r -t 0.5
  [ $? -gt 128 ] || break
done
kill -KILL "$program" 2>/dev/null
wait "$program" 2>/dev/null
echo "ended: $?"
read -r
rm -rf "$FOLDER"
