# Tables as data: classification, regression, predictions, resumption and mistakes in files.
# Sourced by tool_test.sh.

# make_table ROWS: a CSV file of houses, with missing values, on standard output.
make_table() {
  python3 - "$1" <<'PYTHON'
import sys
print('area,city,"type, of house",same,price,kind')
for k in range(int(sys.argv[1])):
    area, city = 40 + 37 * k % 100, ("Ulm", "Bonn", "Kiel")[k * 7 % 3]
    price = 1000 * area + (50000 if city == "Bonn" else 0)
    kind = "large" if area > 90 else "small"
    print(f'{"" if k % 50 == 3 else area},{city},{"flat" if k % 2 else "NA"},5,{price + 0.5},{kind}')
PYTHON
}
table_options=(--epochs 30 --batch-size 32 --lr 0.01 --width 32)

test_tables() {
  make_table 600 >houses.csv
  expect 0 'validation rows predicted correctly' train table --data houses.csv --target kind --ignore price \
    "${table_options[@]}" --out classes
  grep -qF '540 rows to learn from, 60 for validation; 3 columns (2 of categories)' out || fail 'rows are not counted'
  grep -qF 'area 12, type, of house 300' out || fail 'missing values are not counted'
  grep -qF 'the same in all rows: same' out || fail 'the constant column is not named'
  local file
  for file in config.json table.json report.html best.safetensors; do exists classes/$file; done
  expect 0 'most often taken for' eval classes
  expect 0 '"accuracy": ' eval classes --json
  python3 -c 'import json, sys; sys.exit(json.load(open("out"))["accuracy"] < 0.95)' || fail 'few classes are right'
  # The price follows from the area and the city, up to the rows without an area.
  expect 0 'R² 0.9' train table --data houses.csv --target price --ignore kind "${table_options[@]}" --out price
  grep -q 'validation R²' price/report.html || fail 'no R² in the report'
  grep -qF ';</span> <span>missing</span>' price/report.html || fail 'notes on the data run into each other in the report'
  expect 0 '"r_squared": 0.9' eval price --json
  expect 0 'root mean squared error' eval price --data houses.csv
  expect 0 'root mean squared error' train table --data houses.csv --target price --epochs 1 --out first
  grep -qE 'error [0-9]+,[0-9]{3} \(in the unit' out || fail 'a large error is not a whole number'

  # Predictions: a line for each row, without the target, with an unknown category.
  { echo 'area,city,"type, of house"' && tail -n +2 houses.csv | cut -d, -f1-3 | sed 's/Kiel/Köln/;8q'; } >few.csv
  expect 0 'categories that the run did not learn: city' predict price few.csv
  { echo 'area,city,"type, of house"' && tail -n +2 houses.csv | cut -d, -f1-3; } >new.csv
  "$tool" predict price new.csv >predicted.csv 2>out || fail 'no predictions'
  [[ $(wc -l <predicted.csv) == 601 && $(head -n1 predicted.csv) == prediction ]] || fail 'not one line for each row'
  grep -qF 'missing values: area 12' out || fail 'missing values are not counted'
  paste -d' ' <(cut -d, -f5 houses.csv) predicted.csv |
    awk 'NR > 1 { d = $1 - $2; if (d < 30000 && d > -30000) near++ } END { exit near < 570 }' ||
    fail 'predictions are far from the prices'
  "$tool" predict classes houses.csv 2>/dev/null | awk -F, 'NR == 1 { exit $0 != "prediction,probability" }
    NR > 1 && !($1 ~ /^(large|small)$/ && $2 > 0.3 && $2 <= 1) { exit 1 }' || fail 'no classes'
  expect 1 'one CSV file' predict price new.csv new.csv
  expect 1 'one CSV file' predict price new.csv --invert
  cut -d, -f2- houses.csv >without.csv
  expect 1 "there is no column 'area'" predict price without.csv
  sed '5s/^[0-9]*/big/' houses.csv >words.csv
  expect 1 "line 5, column 1: 'big'" predict price words.csv
  sed '5s/small\|large/huge/' houses.csv >huge.csv
  expect 1 "'huge'" eval classes --data huge.csv
}

# A run that is interrupted and resumed ends with the same weights.
test_resumed_tables() {
  make_table 600 >houses.csv
  local all=(train table --data houses.csv --target price --epochs 200 --batch-size 32 --checkpoint-every 8)
  expect 0 'R²' "${all[@]}" --out whole
  in_background "${all[@]}" --out parts
  local process=$!
  wait_until 60 compgen -G 'parts/checkpoints/*' >/dev/null || fail 'no checkpoint'
  kill -TERM $process
  wait $process
  [[ $? == 143 ]] || fail 'the run ended before the signal'
  sed -i '9s/^[0-9]*/55/' houses.csv
  expect 1 'has changed: training inputs' train --resume parts
  make_table 600 >houses.csv
  expect 0 'R²' train --resume parts
  cmp -s whole/model.safetensors parts/model.safetensors || fail 'resumed weights differ'
}

test_table_mistakes() {
  make_table 40 >houses.csv
  local none=(train table --out run --data)
  expect 1 'which table' train table --target price
  expect 1 'which column is predicted? Name it with --target (columns: area, city' "${none[@]}" houses.csv
  expect 1 "there is no column 'prise'; did you mean 'price'?" "${none[@]}" houses.csv --target prise
  expect 1 "there is no column 'citty'; did you mean 'city'?" "${none[@]}" houses.csv --target price --ignore citty
  expect 1 'does not read a table (allowed: mlp)' "${none[@]}" houses.csv --target price --model lenet
  expect 1 '--task is' "${none[@]}" houses.csv --target price --task sorting
  expect 1 '--separator is' "${none[@]}" houses.csv --target price --separator ,
  expect 1 'regression has no numbers' "${none[@]}" houses.csv --target kind --task regression
  expect 1 '1 classes (allowed: 2' "${none[@]}" houses.csv --target same
  expect 1 'cannot be opened' "${none[@]}" nowhere.csv --target x
  # wrong TEXT CONTENTS: the file is rejected with the text.
  wrong() {
    printf "$2" >wrong.csv
    expect 1 "$1" "${none[@]}" wrong.csv --target b
  }
  wrong 'is empty' ''
  wrong 'has 0 rows' 'a,b\n'
  wrong 'has 1 row (allowed: 10' 'a,b\n1,2\n'
  wrong 'only numbers' '1,2\n3,4\n'
  wrong 'every name once' 'b,b\n1,2\n'
  wrong 'line 2, column 1: the line ends behind 1 cells' 'a,b\n1\n'
  wrong 'allowed: UTF-8' 'a,b\n1,\377\n'
  wrong 'a quote has no end' 'a,b\n1,"2\n'
  wrong "'inf' in the column 'a' is infinite" 'a,b\ninf,2\n'
  local rows
  rows=$(printf '%s,same\\n' $(seq 20))
  wrong '1 classes' "a,b\n$rows"
  rows=$(printf '7,%s\\n' $(seq 30))
  wrong 'no column varies' "a,b\n$rows"
  rows=$(printf '%s.5,1\\n' $(seq 20))
  wrong "line 22, column 1: 'x' is no number, but 20 of 21" "a,b\n${rows}x,2\n"
  absent run
  # Cells with line ends, another separator, and numbers that are categories.
  { echo 'text;zip;b' && for k in $(seq 40); do printf '"a\nb%d";%05d;%d.5\n' $((k % 2)) $((k % 4)) $((k % 4)); done; } >odd.csv
  expect 0 'R²' train table --data odd.csv --target b --separator semicolon --categories zip --epochs 2 --batch-size 8 --out odd
  grep -qF '2 columns (2 of categories), 6 inputs' out || fail 'categories are not as asked'
}
